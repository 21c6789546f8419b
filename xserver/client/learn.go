package client

// LearnVariable is 1 where the program's launches are to be learnt from: its
// allocations are managed then, so that they fault, and some of its launches wait to
// be looked at.
const LearnVariable = "XMSCHED_LEARN"

// LearnLogVariable is a file to which each observation is added, a line of JSON each.
const LearnLogVariable = "XMSCHED_LEARN_LOG"
