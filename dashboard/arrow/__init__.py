"""Tables as Parquet, Arrow and CSV files, written by a process of its own.

`writing_process.write_table` starts that process, sends it the rows and yields the file while it is
written. pyarrow takes 140 MB, which a web server would keep for good after its first file.
`write_table_file` is the program; of this room only it imports pyarrow.
"""
