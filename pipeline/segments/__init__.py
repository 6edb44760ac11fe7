"""`format("odradek")`: topics read from a broker's data directory, without the broker.

source      the classes that Spark calls: the data source, its batch reader and its stream reader
options     the options of a read, named as those of format("kafka")
offsets     the range of offsets to read of each partition
filters     conditions that Spark pushes down
reading     the batches of a range of offsets: checked, committed, decompressed
rows        the values common to both decoders
vectors     decodes records to Arrow columns with NumPy
plain       the same with our own reader, one by one
store       the access to segments' files
"""
