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

/// A shell in a directory of its own, with `cbctl` and with stand-ins for the tools that a guide names.
struct GuideShell {
  let directory: TemporaryDirectory

  /// Makes programs with these names, each of which is a script of the shell.
  init(with tools: [String], that script: String) throws {
    directory = try TemporaryDirectory()
    try Files.write(directory.file("script"), Array("#!/bin/sh\n\(script)\n".utf8))
    // A shell makes them, because no program can be run while it is open for writing.
    _ = try Child.run(
      "/bin/sh",
      ["-c", #"cd "$0"; for name; do install -m 755 script "$name"; done"#, directory.path] + tools)
  }

  /// Runs a script, and answers what it has printed, without empty lines, and the code with which it has ended.
  func run(_ script: String) throws -> (output: String, code: Int32?) {
    let programs = BuiltProducts.path(of: "cbctl").split(separator: "/").dropLast().joined(
      separator: "/")
    let output = try Child.run(
      "/bin/sh",
      [
        "-c",
        "cd '\(directory.path)'; PATH='\(directory.path)':'/\(programs)':/usr/bin:/bin\n"
          + "SHARED_BREAKER_STORE='\(directory.store)'; export PATH SHARED_BREAKER_STORE\n"
          + "(\(script)\n) </dev/null 2>&1; echo \"code $?\"",
      ])
    let lines = output.split(separator: "\n")
    return (
      lines.dropLast().joined(separator: "\n"),
      lines.last.flatMap { Int32($0.dropFirst("code ".count)) }
    )
  }
}
