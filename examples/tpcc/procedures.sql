-- The five transactions of TPC-C (clause 2), each one call. The lines of an order come as JSON
-- arrays: its items, and their quantities.

-- Answers the order's number and its total, or aborts if an item does not exist.
CREATE PROCEDURE NewOrder (warehouse_id SMALLINT, district_id TINYINT, customer_id INTEGER, items VARCHAR(400), quantities VARCHAR(200))
PARTITION ON TABLE warehouse COLUMN w_id AS BEGIN
  DECLARE order_id INTEGER;
  DECLARE tax, discount, price, total DECIMAL DEFAULT 0;
  DECLARE lines, line, item_id, quantity, available INTEGER DEFAULT 0;
  DECLARE district_info VARCHAR(24);
  SET lines = ARRAY_LENGTH(items);
  SELECT w_tax INTO tax FROM warehouse WHERE w_id = warehouse_id;
  SELECT d_next_o_id, d_tax + tax INTO order_id, tax FROM district WHERE d_w_id = warehouse_id AND d_id = district_id;
  SELECT c_discount INTO discount FROM customer WHERE c_w_id = warehouse_id AND c_d_id = district_id AND c_id = customer_id;
  UPDATE district SET d_next_o_id = d_next_o_id + 1 WHERE d_w_id = warehouse_id AND d_id = district_id;
  INSERT INTO orders VALUES (warehouse_id, district_id, order_id, customer_id, NOW, NULL, lines, 1);
  INSERT INTO new_order VALUES (warehouse_id, district_id, order_id);
  WHILE line < lines DO
    SET item_id = CAST(ARRAY_ELEMENT(items, line) AS INTEGER);
    SET quantity = CAST(ARRAY_ELEMENT(quantities, line) AS INTEGER);
    SET price = NULL;
    SELECT i_price INTO price FROM item WHERE i_id = item_id;
    IF price IS NULL THEN SIGNAL SQLSTATE '45001' SET MESSAGE_TEXT = 'item number is not valid'; END IF;
    SELECT s_quantity, s_dist INTO available, district_info FROM stock WHERE s_w_id = warehouse_id AND s_i_id = item_id;
    UPDATE stock SET
        s_quantity = CASE WHEN available >= quantity + 10 THEN available - quantity ELSE available - quantity + 91 END,
        s_ytd = s_ytd + quantity, s_order_cnt = s_order_cnt + 1
      WHERE s_w_id = warehouse_id AND s_i_id = item_id;
    SET line = line + 1;
    SET total = total + price * quantity;
    INSERT INTO order_line VALUES
      (warehouse_id, district_id, order_id, line, item_id, warehouse_id, NULL, quantity, price * quantity, district_info);
  END WHILE;
  RETURN TABLE (SELECT order_id AS order_id, ROUND(total * (1 - discount) * (1 + tax), 2) AS total FROM warehouse WHERE w_id = warehouse_id);
END;

-- By the customer's number, or by the last name when it is given: then the middle one of those who
-- share it.
CREATE PROCEDURE Payment (warehouse_id SMALLINT, district_id TINYINT, customer_id INTEGER, last_name VARCHAR(16), amount DECIMAL)
PARTITION ON TABLE warehouse COLUMN w_id AS BEGIN
  DECLARE customer, namesakes INTEGER;
  DECLARE names VARCHAR(24);
  SET customer = customer_id;
  IF last_name IS NOT NULL THEN
    SELECT COUNT(*) INTO namesakes FROM customer WHERE c_w_id = warehouse_id AND c_d_id = district_id AND c_last = last_name;
    SELECT c_id INTO customer FROM customer WHERE c_w_id = warehouse_id AND c_d_id = district_id AND c_last = last_name
      ORDER BY c_first LIMIT 1 OFFSET (namesakes - 1) / 2;
  END IF;
  UPDATE warehouse SET w_ytd = w_ytd + amount WHERE w_id = warehouse_id;
  UPDATE district SET d_ytd = d_ytd + amount WHERE d_w_id = warehouse_id AND d_id = district_id;
  UPDATE customer SET
      c_balance = c_balance - amount, c_ytd_payment = c_ytd_payment + amount, c_payment_cnt = c_payment_cnt + 1,
      c_data = CASE c_credit WHEN 'BC' THEN
          SUBSTRING(CAST(c_id AS VARCHAR) || ' ' || CAST(district_id AS VARCHAR) || ' ' || CAST(amount AS VARCHAR) || ' ' || c_data FROM 1 FOR 500)
        ELSE c_data END
    WHERE c_w_id = warehouse_id AND c_d_id = district_id AND c_id = customer;
  SELECT w_name || '    ' || d_name INTO names FROM warehouse JOIN district ON d_w_id = w_id WHERE w_id = warehouse_id AND d_id = district_id;
  INSERT INTO history VALUES (customer, district_id, warehouse_id, district_id, warehouse_id, NOW, amount, names);
  RETURN TABLE (SELECT * FROM customer WHERE c_w_id = warehouse_id AND c_d_id = district_id AND c_id = customer);
END;

CREATE PROCEDURE OrderStatus (warehouse_id SMALLINT, district_id TINYINT, customer_id INTEGER, last_name VARCHAR(16))
PARTITION ON TABLE warehouse COLUMN w_id AS BEGIN
  DECLARE customer, namesakes, last_order INTEGER;
  SET customer = customer_id;
  IF last_name IS NOT NULL THEN
    SELECT COUNT(*) INTO namesakes FROM customer WHERE c_w_id = warehouse_id AND c_d_id = district_id AND c_last = last_name;
    SELECT c_id INTO customer FROM customer WHERE c_w_id = warehouse_id AND c_d_id = district_id AND c_last = last_name
      ORDER BY c_first LIMIT 1 OFFSET (namesakes - 1) / 2;
  END IF;
  SELECT o_id INTO last_order FROM orders WHERE o_w_id = warehouse_id AND o_d_id = district_id AND o_c_id = customer ORDER BY o_id DESC LIMIT 1;
  RETURN
    TABLE (SELECT c_id, c_first, c_middle, c_last, c_balance FROM customer
      WHERE c_w_id = warehouse_id AND c_d_id = district_id AND c_id = customer),
    TABLE (SELECT o_id, o_entry_d, o_carrier_id FROM orders WHERE o_w_id = warehouse_id AND o_d_id = district_id AND o_id = last_order),
    TABLE (SELECT ol_i_id, ol_supply_w_id, ol_quantity, ol_amount, ol_delivery_d FROM order_line
      WHERE ol_w_id = warehouse_id AND ol_d_id = district_id AND ol_o_id = last_order);
END;

-- The oldest order of each district that was not delivered. Answers how many were.
CREATE PROCEDURE Delivery (warehouse_id SMALLINT, carrier TINYINT)
PARTITION ON TABLE warehouse COLUMN w_id AS BEGIN
  DECLARE delivered, oldest, customer INTEGER DEFAULT 0;
  DECLARE total DECIMAL;
  FOR district AS SELECT d_id FROM district WHERE d_w_id = warehouse_id ORDER BY d_id DO
    SELECT MIN(no_o_id) INTO oldest FROM new_order WHERE no_w_id = warehouse_id AND no_d_id = district.d_id;
    IF oldest IS NOT NULL THEN
      DELETE FROM new_order WHERE no_w_id = warehouse_id AND no_d_id = district.d_id AND no_o_id = oldest;
      SELECT o_c_id INTO customer FROM orders WHERE o_w_id = warehouse_id AND o_d_id = district.d_id AND o_id = oldest;
      UPDATE orders SET o_carrier_id = carrier WHERE o_w_id = warehouse_id AND o_d_id = district.d_id AND o_id = oldest;
      UPDATE order_line SET ol_delivery_d = NOW WHERE ol_w_id = warehouse_id AND ol_d_id = district.d_id AND ol_o_id = oldest;
      SELECT SUM(ol_amount) INTO total FROM order_line WHERE ol_w_id = warehouse_id AND ol_d_id = district.d_id AND ol_o_id = oldest;
      UPDATE customer SET c_balance = c_balance + total, c_delivery_cnt = c_delivery_cnt + 1
        WHERE c_w_id = warehouse_id AND c_d_id = district.d_id AND c_id = customer;
      SET delivered = delivered + 1;
    END IF;
  END FOR;
  RETURN delivered;
END;

-- How many of the items in the district's last twenty orders are short.
CREATE PROCEDURE StockLevel (warehouse_id SMALLINT, district_id TINYINT, threshold INTEGER)
PARTITION ON TABLE warehouse COLUMN w_id AS BEGIN
  DECLARE next_order INTEGER;
  SELECT d_next_o_id INTO next_order FROM district WHERE d_w_id = warehouse_id AND d_id = district_id;
  RETURN TABLE (
    SELECT COUNT(DISTINCT s_i_id) AS low_stock FROM order_line JOIN stock ON s_w_id = ol_w_id AND s_i_id = ol_i_id
    WHERE ol_w_id = warehouse_id AND ol_d_id = district_id AND ol_o_id < next_order AND ol_o_id >= next_order - 20 AND s_quantity < threshold
  );
END;
