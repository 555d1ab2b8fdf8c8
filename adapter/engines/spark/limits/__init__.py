"""What one statement may take of Spark. May import `admission` and what is below it. Read `execution` first."""
