import Glibc
import TestSupport

/// The real `cbctl`, run as a shell runs it.
struct CommandLineTool {
  struct Result {
    var code: Int32
    var output: String
    var errors: String
  }

  let directory: TemporaryDirectory
  var store: String

  /// A prefix for the command, such as a program that runs it as another user.
  var prefix = ""

  init() throws {
    directory = try TemporaryDirectory()
    store = directory.store
  }

  /// Runs `cbctl` with words that are passed to the shell unquoted.
  func callAsFunction(_ words: String...) throws -> Result {
    let errors = directory.file("errors-\(UInt64.random(in: 0 ... .max))")
    let command =
      "SHARED_BREAKER_STORE='\(store)' \(prefix) '\(BuiltProducts.path(of: "cbctl"))' "
      + words.joined(separator: " ") + " 2>'\(errors)' </dev/null"
    guard let pipe = unsafe popen(command, "r") else { throw SupportError("popen", errno) }
    var output: [UInt8] = []
    while case let byte = unsafe fgetc(pipe), byte != EOF { output.append(UInt8(byte)) }
    let status = unsafe pclose(pipe)
    return Result(
      code: (status >> 8) & 0xFF, output: String(decoding: output, as: UTF8.self),
      errors: String(decoding: try Files.read(errors), as: UTF8.self))
  }
}
