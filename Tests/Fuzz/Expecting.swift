@testable import ControlKit

/// Ends the process, so that libFuzzer keeps what has led here, unless the condition holds.
func expect(_ condition: Bool, _ complaint: @autoclosure () -> String) {
  if !condition { fatalError(complaint()) }
}

/// A message is for people: it says something, on one line, and misleads nobody.
func expectReadable(_ message: String) {
  expect(!message.isEmpty, "an empty message")
  expect(
    message == VisibleText.bare(message),
    "a message that could mislead: \(VisibleText.bare(message))")
}
