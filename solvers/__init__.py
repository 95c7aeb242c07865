"""One file per solver, each with one public function ``solve``; files that start with _ are parts
of them.
"""
