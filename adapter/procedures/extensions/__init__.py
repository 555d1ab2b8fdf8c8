"""The functions of extensions that run queries whose texts are their arguments, a module for each extension.

May import the rooms below `procedures` and the planner. Read `table_functions` first.
"""
