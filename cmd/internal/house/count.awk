# Counts the tests of the C rooms (lines PASS: NAME and so on) and of go test
# -json, subtests included. A package that failed outside its tests, because it
# was not built or its main function said so, counts as one that failed.

function field(name) {
	if (!match($0, "\"" name "\":\"[^\"]*\""))
		return ""
	return substr($0, RSTART + length(name) + 4, RLENGTH - length(name) - 5)
}

/^(PASS|FAIL|SKIP): / { n[tolower(substr($1, 1, 4))]++ }

/^\{/ {
	action = field("Action")
	package = field("Package")
	if (action !~ /^(pass|fail|skip)$/)
		next
	if (field("Test") != "") {
		n[action]++
		failed[package] += action == "fail"
	} else if (action == "fail" && !failed[package])
		n["fail"]++
}

END { printf "%d passed, %d failed, %d skipped\n", n["pass"], n["fail"], n["skip"] }
