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

  /// The script that the words after the interpreter's own name say; nil if they do not.
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

  /// What the letters of a word say: nothing yet (nil), the script, or that nobody knows (empty).
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
