-- The tables of TPC-C (Transaction Processing Performance Council, Benchmark C, revision 5.11,
-- clause 1.3), partitioned by warehouse.
CREATE TABLE warehouse (
  w_id SMALLINT NOT NULL, w_name VARCHAR(10), w_street_1 VARCHAR(20), w_street_2 VARCHAR(20), w_city VARCHAR(20), w_state VARCHAR(2),
  w_zip VARCHAR(9), w_tax DECIMAL, w_ytd DECIMAL, PRIMARY KEY (w_id)
);
PARTITION TABLE warehouse ON COLUMN w_id;

CREATE TABLE district (
  d_w_id SMALLINT NOT NULL, d_id TINYINT NOT NULL, d_name VARCHAR(10), d_street_1 VARCHAR(20), d_street_2 VARCHAR(20), d_city VARCHAR(20),
  d_state VARCHAR(2), d_zip VARCHAR(9), d_tax DECIMAL, d_ytd DECIMAL, d_next_o_id INTEGER NOT NULL, PRIMARY KEY (d_w_id, d_id)
);
PARTITION TABLE district ON COLUMN d_w_id;

CREATE TABLE customer (
  c_w_id SMALLINT NOT NULL, c_d_id TINYINT NOT NULL, c_id INTEGER NOT NULL, c_first VARCHAR(16), c_middle VARCHAR(2), c_last VARCHAR(16),
  c_street_1 VARCHAR(20), c_street_2 VARCHAR(20), c_city VARCHAR(20), c_state VARCHAR(2), c_zip VARCHAR(9), c_phone VARCHAR(16),
  c_since TIMESTAMP, c_credit VARCHAR(2), c_credit_lim DECIMAL, c_discount DECIMAL, c_balance DECIMAL, c_ytd_payment DECIMAL,
  c_payment_cnt INTEGER, c_delivery_cnt INTEGER, c_data VARCHAR(500), PRIMARY KEY (c_w_id, c_d_id, c_id)
);
PARTITION TABLE customer ON COLUMN c_w_id;
CREATE INDEX customer_name ON customer (c_w_id, c_d_id, c_last, c_first);

CREATE TABLE history (
  h_c_id INTEGER, h_c_d_id TINYINT, h_c_w_id SMALLINT, h_d_id TINYINT, h_w_id SMALLINT NOT NULL, h_date TIMESTAMP, h_amount DECIMAL, h_data VARCHAR(24)
);
PARTITION TABLE history ON COLUMN h_w_id;

CREATE TABLE new_order (
  no_w_id SMALLINT NOT NULL, no_d_id TINYINT NOT NULL, no_o_id INTEGER NOT NULL, PRIMARY KEY (no_w_id, no_d_id, no_o_id)
);
PARTITION TABLE new_order ON COLUMN no_w_id;

CREATE TABLE orders (
  o_w_id SMALLINT NOT NULL, o_d_id TINYINT NOT NULL, o_id INTEGER NOT NULL, o_c_id INTEGER, o_entry_d TIMESTAMP, o_carrier_id TINYINT,
  o_ol_cnt TINYINT, o_all_local TINYINT, PRIMARY KEY (o_w_id, o_d_id, o_id)
);
PARTITION TABLE orders ON COLUMN o_w_id;
CREATE INDEX orders_customer ON orders (o_w_id, o_d_id, o_c_id, o_id);

CREATE TABLE order_line (
  ol_w_id SMALLINT NOT NULL, ol_d_id TINYINT NOT NULL, ol_o_id INTEGER NOT NULL, ol_number TINYINT NOT NULL, ol_i_id INTEGER,
  ol_supply_w_id SMALLINT, ol_delivery_d TIMESTAMP, ol_quantity TINYINT, ol_amount DECIMAL, ol_dist_info VARCHAR(24),
  PRIMARY KEY (ol_w_id, ol_d_id, ol_o_id, ol_number)
);
PARTITION TABLE order_line ON COLUMN ol_w_id;

CREATE TABLE item (
  i_id INTEGER NOT NULL, i_im_id INTEGER, i_name VARCHAR(24), i_price DECIMAL, i_data VARCHAR(50), PRIMARY KEY (i_id)
);

CREATE TABLE stock (
  s_w_id SMALLINT NOT NULL, s_i_id INTEGER NOT NULL, s_quantity SMALLINT, s_dist VARCHAR(24), s_ytd INTEGER, s_order_cnt INTEGER,
  s_remote_cnt INTEGER, s_data VARCHAR(50), PRIMARY KEY (s_w_id, s_i_id)
);
PARTITION TABLE stock ON COLUMN s_w_id;
