"""The rules of check_structure.py, one concept a module."""
