import ControlKit

/// Users and a group that need no entry in the user database.
let stranger: UInt32 = 65_534
let worker: UInt32 = 54_321
let otherWorker: UInt32 = 54_322
let workers: UInt32 = 54_320

/// Runs one command line on a store, in the test's process or in a child of it.
func cbctl(_ path: String, _ words: String...) -> Answer {
  let recorder = Recorder()
  let ending = ControlKit.run(
    arguments: ["--store", path] + words, console: recorder.console())
  return Answer(code: ending.code, output: recorder.output, errors: recorder.errors)
}

/// Ends the process with the answer and the line, unless a condition holds.
func require(_ isRight: Bool, _ answer: Answer, line: Int = #line) {
  precondition(isRight, "line \(line): \(answer)")
}
