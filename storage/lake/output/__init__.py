"""New files: rows divided among files (`row_files`), which are written aside; the files' names and folders, given when
all are whole (`new_files`); and both in one process (`writing`).

May import `lake` and what stands below. Everything blocks and runs on threads or in tasks. Read `new_files` first.
"""
