"""`streamtime serve`: one driver that serves the functions over Spark Connect and JDBC/ODBC."""
