@testable import ControlKit

/// Ends the process unless the condition holds, so that libFuzzer keeps the input.
func expect(_ condition: Bool, _ complaint: @autoclosure () -> String) {
  if !condition { fatalError(complaint()) }
}

/// Checks that a message is not empty, is one line, and has no characters that could mislead.
func expectReadable(_ message: String) {
  expect(!message.isEmpty, "an empty message")
  expect(
    message == VisibleText.bare(message),
    "a message that could mislead: \(VisibleText.bare(message))")
}
