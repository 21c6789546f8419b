package conformance

// memoryCases ask about memory of every kind, and the ways to move and set it.
var memoryCases = []testCase{}
