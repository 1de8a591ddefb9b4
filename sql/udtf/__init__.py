"""The functions as Python UDTFs, for sessions where nothing but `spark.udtf.register` is at hand."""
