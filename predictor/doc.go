// Package predictor says what a kernel will touch before it runs.
//
// It is the arithmetic of prediction and nothing else: no device, no file, no
// clock, no goroutine, no lock. Launches, observations and times come in as
// arguments, ranges and bytes go out as values. What it says never decides
// whether a program is right: a wrong word costs time.
//
// The model, from a launch to a plan:
//
//   - A [Launch] is a kernel's arguments as they were recorded. Words that point
//     into one of the [Ranges] are pointers, also within structs and arrays; all
//     other words, grid and block are its values.
//   - A template says for one pointer what is touched from there: a fixed number
//     of bytes, bytes linear in a product of up to three values, of which some may be
//     what a division leaves, or chunks of
//     such a size at such a stride; or, where memory decides, what may be touched at
//     most. The pointers of an array have one template, and a value says how many there
//     are. A [Model] holds a kernel's templates, by
//     variants that a discrete value tells apart.
//   - An [Observation] is what one launch was seen to touch, in blocks of 2 MiB or
//     in bytes. Each bounds the extents; the templates are the shortest
//     description of all bounds (minimum description length), and later
//     observations verify them. What is contradicted is dropped and learnt again.
//     A launch with a value that no observation had is predicted by the longest
//     stretch of all descriptions that are about as short. Kernels that differ in
//     tiles or vectors alone are a family, in which one is known by the others.
//     Where nothing is known the prediction is the whole allocation.
//   - A [Library] holds the models, by kernel name and code hash, in a bounded
//     number; Encode and Decode turn it into bytes for a file, Export and Import
//     into a readable form.
//   - A [Score] counts what predictions missed and what they named in vain.
//   - A [Plan] puts the commands that were submitted, and those that will follow
//     because the sequence repeats, into the order of time. Where a program works in
//     phases, each with a short period over memory of its own, the next phase follows:
//     the one that followed before, or the same as far on as the last two times.
//
// Nothing here is safe for concurrent use: who owns a value owns its lock.
package predictor
