"""Readers of files, one format a module. Damaged or foreign files end in one line that names file and fix."""
