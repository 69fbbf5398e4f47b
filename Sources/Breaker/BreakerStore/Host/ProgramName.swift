internal import BreakerCore
internal import CHost
internal import Glibc

/// The name of a program, from what the kernel knows of how it was started.
///
/// Servers write a title over their command line, so the line is believed only while it still begins
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

  /// The script that an interpreter runs; nil if there is none, or if it cannot be known.
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

/// A program that runs scripts, and what its command line says about which one.
///
/// An option that is not listed ends the search, because the word after it may be its value.
struct Interpreter {
  var name: String

  /// The letters of options without a value.
  var flags: String

  /// The letters of options whose value is the rest of the word, if there is any.
  var attached = ""

  /// The letters of options whose value is the rest of the word, or else the next word.
  var valued = ""

  /// The letters of options whose value is the script.
  var naming = ""

  /// The long options without a value.
  var longFlags: [String] = []

  private static let all =
    ["python", "pypy"].map { name in
      Interpreter(name: name, flags: "bBdEiIOPqRsSuvx", valued: "WX", naming: "m")
    }
    + ["sh", "bash", "dash", "ksh", "zsh"].map { name in
      Interpreter(
        name: name, flags: "abefhiklmnprtuvxBCEHPT", valued: "oO",
        longFlags: ["--login", "--noprofile", "--norc", "--posix"])
    }
    + ["node", "nodejs"].map { name in
      Interpreter(
        name: name, flags: "", valued: "r",
        longFlags: ["--enable-source-maps", "--inspect", "--no-warnings"])
    } + [
      Interpreter(
        name: "ruby", flags: "aclnpsSvwdy", attached: "0FiKTWx", valued: "ICEr",
        longFlags: ["--disable-gems", "--jit", "--yjit"]),
      Interpreter(name: "perl", flags: "acnpsStTuUvwWX", attached: "0CdDFilmMx", valued: "I"),
      Interpreter(name: "php", flags: "aCHmnqsvw", valued: "cdtz", naming: "f"),
    ]

  /// The interpreter of a name, with or without a version, such as `python3.11`.
  static func of(_ program: [UInt8]) -> Interpreter? {
    let version = Array("0123456789.".utf8)
    return all.first { interpreter in
      program.starts(with: interpreter.name.utf8)
        && program.dropFirst(interpreter.name.utf8.count).allSatisfy(version.contains)
    }
  }

  /// The script that the words after the interpreter's name give; nil if they give none.
  func script(in words: ArraySlice<[UInt8]>) -> [UInt8]? {
    var rest = words
    while let word = rest.popFirst() {
      let dash = UInt8(ascii: "-")
      guard word.first == dash else { return word }
      if word == [dash, dash] { return rest.first }
      if word.starts(with: [dash, dash]) {
        guard
          word.contains(UInt8(ascii: "=")) || longFlags.contains(where: { word == Array($0.utf8) })
        else { return nil }
        continue
      }
      guard let found = found(in: word.dropFirst(), before: &rest) else { continue }
      return found.isEmpty ? nil : found
    }
    return nil
  }

  /// Reads the letters of an option: nil if the script comes later, empty if it is unknown.
  private func found(
    in word: ArraySlice<UInt8>, before rest: inout ArraySlice<[UInt8]>
  ) -> [UInt8]? {
    var letters = word
    guard !letters.isEmpty else { return [] }
    while let letter = letters.popFirst() {
      if flags.utf8.contains(letter) { continue }
      if attached.utf8.contains(letter) { return nil }
      if valued.utf8.contains(letter) {
        if letters.isEmpty { _ = rest.popFirst() }
        return nil
      }
      guard naming.utf8.contains(letter) else { return [] }
      return letters.isEmpty ? rest.first ?? [] : Array(letters)
    }
    return nil
  }
}
