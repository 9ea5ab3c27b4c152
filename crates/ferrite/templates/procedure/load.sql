load classes target/@NAME@.jar
file schema.sql
