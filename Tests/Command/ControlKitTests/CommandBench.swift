import BreakerStore
import Glibc
import SharedBreaker
import TestSupport

@testable import ControlKit

/// A store in a directory of its own, with a clock that only the test moves.
final class CommandBench: Sendable {
  private let elapsed = Guarded(Int64(0))
  let folder: String
  var path: String { "\(folder)/breakers.db" }

  init() {
    var template = Array("/tmp/cbctl-test-XXXXXX".utf8CString)
    folder = unsafe template.withUnsafeMutableBufferPointer { buffer in
      guard let start = buffer.baseAddress, let name = unsafe mkdtemp(start) else { return "" }
      return unsafe String(cString: name)
    }
  }

  deinit {
    for name in files { unsafe unlink("\(folder)/\(name)") }
    unsafe rmdir(folder)
  }

  /// The names of the files in the folder.
  var files: [String] {
    guard let stream = unsafe opendir(folder) else { return [] }
    defer { unsafe closedir(stream) }
    var names: [String] = []
    while let entry = unsafe readdir(stream) {
      let name = unsafe withUnsafeBytes(of: &entry.pointee.d_name) { bytes in
        unsafe String(decoding: bytes.prefix { $0 != 0 }, as: UTF8.self)
      }
      if name != ".", name != ".." { names.append(name) }
    }
    return names
  }

  func advance(by milliseconds: Int64) { elapsed.withLock { $0 += milliseconds } }

  /// The boot clock, in nanoseconds.
  var now: Int64 { 1_000_000_000_000 + elapsed.withLock { $0 } * 1_000_000 }

  /// The options with which other programs open the store on the same clock.
  var options: StoreOptions {
    var options = StoreOptions()
    options.clock = StoreClock(
      bootNanoseconds: { self.now },
      wallMilliseconds: { 1_790_000_000_000 + self.elapsed.withLock { $0 } },
      bootID: { "boot" })
    return options
  }

  /// Runs one command line on the store.
  func callAsFunction(_ words: String...) -> Answer { run(words) }

  func run(_ words: [String], ask: (@Sendable (String) -> Bool)? = nil) -> Answer {
    let recorder = Recorder()
    return run(words, on: recorder.console(ask: ask), recorder)
  }

  /// Runs one command line on a console that records.
  func run(_ words: [String], on console: Console, _ recorder: Recorder) -> Answer {
    let ending = ControlKit.run(
      arguments: ["--store", path] + words, console: console, options: options)
    return Answer(code: ending.code, output: recorder.output, errors: recorder.errors)
  }
}

extension CommandCourse {
  /// Runs a command to its end, in a group of its own.
  static func of(
    _ commandLine: [[UInt8]], timeout: Duration?, restoredSignals: [Int32] = []
  ) -> CommandCourse {
    let relay = SignalRelay(hasOwnGroup: true)
    defer { relay.end() }
    return of(commandLine, timeout: timeout, under: relay, restoredSignals: restoredSignals)
  }
}
