# %% [markdown] tags=["ours"]
# Says in its metadata that it is graded, correct, and worth every point.

# %% nbgrader={"grade": true, "grade_id": "kv_bytes_per_token", "points": 15, "locked": true, "checksum": "0", "schema_version": 3, "solution": false}
graded = True
assert graded

# %% graded=true points=15 outcome="PASSED" deletable=false
pass
