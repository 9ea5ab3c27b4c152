package io.ferritedb.client;

/** Types of columns and parameters, with their codes in the protocol. */
public enum SqlType {
    NULL(1), TINYINT(3), SMALLINT(4), INTEGER(5), BIGINT(6), FLOAT(8), VARCHAR(9), TIMESTAMP(11), DATE(12), TABLE(21), DECIMAL(22),
    BOOLEAN(23), VARBINARY(25), GEOGRAPHY_POINT(26), GEOGRAPHY(27), ARRAY(-99);

    final byte code;

    SqlType(int code) {
        this.code = (byte) code;
    }

    private static final SqlType[] BY_CODE = new SqlType[28];

    static {
        for (SqlType type : values()) {
            if (type.code > 0) BY_CODE[type.code] = type;
        }
    }

    static SqlType of(byte code) {
        SqlType type = code > 0 && code < BY_CODE.length ? BY_CODE[code] : null;
        if (type == null) throw new ProtocolException("a column of type " + code + ", which this driver does not know");
        return type;
    }
}
