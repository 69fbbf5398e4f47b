internal import BreakerCore
internal import CHost
internal import Glibc

/// The name of a program, from what the kernel knows of how it was started.
///
/// Servers write a title over their command line, so that is believed only while it still begins
/// with the name that the program was started by.
package struct ProgramName {
  /// The file that runs; empty if the kernel does not say.
  var executable: [UInt8]

  /// The path that it was started by: that of a script, if the script names its interpreter itself.
  ///
  /// It lies beyond what programs write their titles over; empty if the kernel does not say.
  var startedAs: [UInt8]

  /// The words of the command line as they are now.
  var words: [[UInt8]]

  /// The name of this program, for the history.
  package static func current() -> String {
    let line = ProcFile.text("/proc/self/cmdline") ?? ""
    return ProgramName(
      executable: ownExecutable(), startedAs: ownStart(),
      words: line.utf8.split(separator: 0).map { Array($0) }
    ).text
  }

  /// `worker`, or `worker.py (python3.11)` for a script.
  var text: String {
    let program = Self.last(of: executable.isEmpty ? startedAs : withoutDeletion)
    guard !program.isEmpty else { return "unknown" }
    let name = script(of: program).map { "\(Self.text($0)) (\(Self.text(program)))" }
    return OutsideText.cut(name ?? Self.text(program), to: OutsideText.longestName)
  }

  /// The script that an interpreter runs; nil if there is none, or if nobody can know.
  private func script(of program: [UInt8]) -> [UInt8]? {
    guard Interpreter.of(program) != nil, !startedAs.isEmpty,
      // A program that was started by its descriptor has no path.
      !startedAs.starts(with: "/dev/fd/".utf8)
    else { return nil }
    let start = Self.last(of: startedAs)
    guard let interpreter = Interpreter.of(start) else { return start }
    guard let first = words.first, Self.last(of: first) == start else { return nil }
    let script = interpreter.script(in: words.dropFirst()).map { Self.last(of: $0) }
    return script.flatMap { $0.isEmpty ? nil : $0 }
  }

  /// The kernel's note about a file that was deleted, as by an upgrade, is not part of its name.
  private var withoutDeletion: [UInt8] {
    let note = Array(" (deleted)".utf8)
    return executable.suffix(note.count) == note[...]
      ? Array(executable.dropLast(note.count)) : executable
  }

  private static func last(of path: [UInt8]) -> [UInt8] {
    Array(path.split(separator: UInt8(ascii: "/")).last ?? [])
  }

  private static func text(_ bytes: [UInt8]) -> String { String(decoding: bytes, as: UTF8.self) }

  private static func ownExecutable() -> [UInt8] {
    var path = [CChar](repeating: 0, count: Int(PATH_MAX))
    let length = unsafe readlink("/proc/self/exe", &path, path.count)
    return path.prefix(max(0, length)).map { UInt8(bitPattern: $0) }
  }

  private static func ownStart() -> [UInt8] {
    guard let path = unsafe sb_exec_path() else { return [] }
    return unsafe UnsafeRawBufferPointer(start: path, count: strlen(path)).map { $0 }
  }
}
