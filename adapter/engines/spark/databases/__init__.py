"""Tables of other databases on Spark, by JDBC. Imports what is beside it and below; `jdbc` is all there is."""
