/// An unfinished shell line, split into words as the shell would split it.
///
/// It works on scalars, because a combining mark from a name can join a character that the shell
/// acts on to one Swift character.
struct ShellWords: Sendable, Hashable {
  enum Quote: Unicode.Scalar, Sendable { case single = "'", double = "\"" }

  /// The words without their quotes; the last one is where the cursor stands.
  private(set) var words: [String] = [""]

  /// The quote that the last word has not closed.
  private(set) var openQuote: Quote?

  /// How many scalars of the last word, without quotes, precede the part that the shell replaces.
  private(set) var kept = 0

  /// Splits a line; the shell's line editor may also begin a new word at a character of `breaks`.
  init(_ line: String, breaks: String = "") {
    var rest = line.unicodeScalars[...]
    let breaks = breaks.unicodeScalars
    var isInWord = false
    while let scalar = rest.popFirst() {
      switch (openQuote, scalar) {
      case (.single, "'"), (.double, "\""): openQuote = nil
      case (.single, _): append(scalar)
      case (.double, "\\"):
        if let next = rest.first, "\"\\$`".unicodeScalars.contains(next) {
          append(rest.removeFirst())
        } else {
          append(scalar)
        }
      case (.double, _): append(scalar)
      case (nil, "'"), (nil, "\""):
        openQuote = Quote(rawValue: scalar)
        isInWord = true
        // The line editor replaces what follows the quote.
        kept = words[words.count - 1].unicodeScalars.count
      case (nil, "\\"):
        if let next = rest.popFirst() { append(next) }
        isInWord = true
      case (nil, " "), (nil, "\t"):
        if isInWord { words.append("") }
        isInWord = false
        kept = 0
      case (nil, _):
        append(scalar)
        isInWord = true
        if breaks.contains(scalar) { kept = words[words.count - 1].unicodeScalars.count }
      }
    }
  }

  /// Takes words that the shell has split itself, and the last word separately.
  init(words: [String], last: String) { self.words = words.dropLast() + [last] }

  /// Removes the name of the program.
  mutating func dropFirst() {
    if words.count > 1 { words.removeFirst() }
  }

  /// All words as one.
  var joined: String { words.joined(separator: " ") }

  private mutating func append(_ scalar: Unicode.Scalar) {
    words[words.count - 1].unicodeScalars.append(scalar)
  }

  /// The part of a text that the shell needs, after what it keeps of the last word, escaped.
  func escaped(_ text: String) -> String {
    var result = ""
    for scalar in text.unicodeScalars.dropFirst(kept) { result += escaped(scalar) }
    return result
  }

  private func escaped(_ scalar: Unicode.Scalar) -> String {
    switch (openQuote, scalar) {
    case (.single, "'"): "'\\''"
    // Inside double quotes a backslash before it would remain, so it stands outside of them.
    case (.double, "!"): "\"\\!\""
    case (.double, "\""), (.double, "\\"), (.double, "$"), (.double, "`"): "\\\(scalar)"
    case (nil, _) where !Self.isPlain(scalar): "\\\(scalar)"
    default: "\(scalar)"
    }
  }

  /// Whether a scalar has no special meaning to a shell.
  private static func isPlain(_ scalar: Unicode.Scalar) -> Bool {
    switch scalar {
    case "a"..."z", "A"..."Z", "0"..."9": true
    default: !scalar.isASCII || "-_./:=@%+,".unicodeScalars.contains(scalar)
    }
  }
}
