"""``mla-guard report``: the hierarchy, the matrix, the findings and their history as one page."""
