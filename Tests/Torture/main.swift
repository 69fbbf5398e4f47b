import ControlKit
import Glibc
import SharedBreaker
import TestSupport

/// Ends the process like a command.
private func end(_ ending: Ending) -> Never { exit(ending.code) }

private func number(_ text: String, of option: String) throws -> Int {
  guard let number = Int(text), number >= 0 else {
    throw SupportError("\(option) \(text): give a number")
  }
  return number
}

private func torture(_ arguments: [String]) throws -> Bool {
  var torture = Torture(
    seconds: 60, seed: .random(in: 0...999_999_999), only: nil,
    directory: "/tmp/shared-breaker-torture.\(getpid())")
  var rest = arguments[...]
  while let word = rest.popFirst() {
    guard let value = rest.popFirst() else { throw SupportError("\(word) needs a value") }
    switch word {
    case "--seconds": torture.seconds = try number(value, of: word)
    case "--seed": torture.seed = UInt64(try number(value, of: word))
    case "--phase": torture.only = try number(value, of: word)
    case "--directory": torture.directory = value
    default: throw SupportError("there is no option \(word)")
    }
  }
  Interruption.listen()
  do {
    return try torture.run()
  } catch is Interruption {
    Files.removeAll(torture.directory)
    exit(130)
  }
}

/// Runs as the referee, which starts this program again for each other process.
do {
  let arguments = Array(CommandLine.arguments.dropFirst())
  let role = Role(arguments.dropFirst())
  switch arguments.first {
  case "worker":
    try Worker(role).run(threads: role.number("threads"))
  case "commander":
    try Commander(role).run()
  case "cbctl":
    // The real command, but with a clock that the referee moves.
    let options = StoreOptions(clock: try role.clock())
    let words = Array(arguments.dropFirst(2))
    end(ControlKit.run(arguments: words, console: .system(), options: options))
  default:
    exit(try torture(arguments) ? 0 : 1)
  }
} catch {
  let bytes = Array("torture: \(error)\n".utf8)
  _ = unsafe write(2, bytes, bytes.count)
  exit(2)
}
