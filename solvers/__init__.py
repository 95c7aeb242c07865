"""One module or package for each solver, with a public function ``solve``; names that start with an
underscore are parts of solvers.
"""
