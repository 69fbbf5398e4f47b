@testable import ControlKit

/// Ends the process, so that libFuzzer keeps what has led here, unless the condition holds.
func expect(_ condition: Bool, _ complaint: @autoclosure () -> String) {
  if !condition { fatalError(complaint()) }
}

/// A message is for people: it says something, on one line, and steers no terminal.
func expectReadable(_ message: String) {
  expect(!message.isEmpty, "an empty message")
  expect(
    !message.unicodeScalars.contains(where: VisibleText.isControl),
    "a message with control characters: \(VisibleText.bare(message))")
}
