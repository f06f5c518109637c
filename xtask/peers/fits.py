"""Does the JSON on stdin fit the JSON Schema in the first argument? A validator that is not ours says so."""

import json
import sys

import jsonschema

jsonschema.validate(json.load(sys.stdin), json.loads(sys.argv[1]))
