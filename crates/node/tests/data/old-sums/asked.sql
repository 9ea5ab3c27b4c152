SELECT k, f, g FROM by_k ORDER BY k;
SELECT n, f, g FROM in_all;
SELECT k, n, f FROM passed ORDER BY k;
