/// An unfinished line of a shell, taken apart as the shell will do it.
///
/// By scalars: a mark from a name can join what the shell acts on to one of Swift's characters.
struct ShellWords: Sendable, Hashable {
  enum Quote: Unicode.Scalar, Sendable { case single = "'", double = "\"" }

  /// The words without their quotes; the last one is where the cursor stands.
  private(set) var words: [String] = [""]

  /// The quote that the last word has not closed.
  private(set) var openQuote: Quote?

  /// How many scalars of the last word, without quotes, lie before what the shell replaces.
  private(set) var kept = 0

  /// Takes a line apart; the line editor of the shell may begin a new word at `breaks` too.
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
        // The line editor replaces what follows on the quote.
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

  /// Words that the shell has taken apart itself, but for the last one.
  init(words: [String], last: String) { self.words = words.dropLast() + [last] }

  /// Takes the name of the program away.
  mutating func dropFirst() {
    if words.count > 1 { words.removeFirst() }
  }

  /// All of it as one word.
  var joined: String { words.joined(separator: " ") }

  private mutating func append(_ scalar: Unicode.Scalar) {
    words[words.count - 1].unicodeScalars.append(scalar)
  }

  /// What the shell has to be given of the text, behind what it keeps of the last word.
  func escaped(_ text: String) -> String {
    var result = ""
    for scalar in text.unicodeScalars.dropFirst(kept) { result += escaped(scalar) }
    return result
  }

  private func escaped(_ scalar: Unicode.Scalar) -> String {
    switch (openQuote, scalar) {
    case (.single, "'"): "'\\''"
    // Where it stands in quotes, a backslash before it would stay.
    case (.double, "!"): "\"\\!\""
    case (.double, "\""), (.double, "\\"), (.double, "$"), (.double, "`"): "\\\(scalar)"
    case (nil, _) where !Self.isPlain(scalar): "\\\(scalar)"
    default: "\(scalar)"
    }
  }

  /// Whether a scalar means nothing but itself to a shell.
  private static func isPlain(_ scalar: Unicode.Scalar) -> Bool {
    switch scalar {
    case "a"..."z", "A"..."Z", "0"..."9": true
    default: !scalar.isASCII || "-_./:=@%+,".unicodeScalars.contains(scalar)
    }
  }
}
