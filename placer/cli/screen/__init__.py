"""What is printed and how: lines, tables, formats, progress, help and completion."""
