/// An unfinished line of a shell, taken apart as the shell will do it.
struct ShellWords: Sendable, Hashable {
  enum Quote: Character, Sendable { case single = "'", double = "\"" }

  /// The words without their quotes; the last one is where the cursor stands.
  private(set) var words: [String] = [""]

  /// The quote that the last word has not closed.
  private(set) var openQuote: Quote?

  /// How many characters of the last word, without quotes, lie before what the shell replaces.
  private(set) var kept = 0

  /// Takes a line apart; the line editor of the shell may begin a new word at `breaks` too.
  init(_ line: String, breaks: String = "") {
    var rest = line[...]
    var isInWord = false
    while let character = rest.popFirst() {
      switch (openQuote, character) {
      case (.single, "'"), (.double, "\""): openQuote = nil
      case (.single, _): append(character)
      case (.double, "\\"):
        if let next = rest.first, "\"\\$`".contains(next) {
          append(rest.removeFirst())
        } else {
          append(character)
        }
      case (.double, _): append(character)
      case (nil, "'"), (nil, "\""):
        openQuote = Quote(rawValue: character)
        isInWord = true
        // The line editor replaces what follows on the quote.
        kept = words[words.count - 1].count
      case (nil, "\\"):
        if let next = rest.popFirst() { append(next) }
        isInWord = true
      case (nil, " "), (nil, "\t"):
        if isInWord { words.append("") }
        isInWord = false
        kept = 0
      case (nil, _):
        append(character)
        isInWord = true
        if breaks.contains(character) { kept = words[words.count - 1].count }
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

  private mutating func append(_ character: Character) {
    words[words.count - 1].append(character)
  }

  /// The text as the shell has to be given it behind what it keeps of the last word.
  func escaped(_ text: Substring) -> String {
    switch openQuote {
    case .single: String(text).replacing("'", with: "'\\''")
    case .double: Self.escaped(text) { "\"\\$`".contains($0) }
    case nil: Self.escaped(text) { !Self.isPlain($0) }
    }
  }

  private static func escaped(_ text: Substring, where isSpecial: (Character) -> Bool) -> String {
    var result = ""
    for character in text { result += isSpecial(character) ? "\\\(character)" : "\(character)" }
    return result
  }

  /// Whether a character means nothing but itself to a shell.
  private static func isPlain(_ character: Character) -> Bool {
    !character.isASCII || character.isLetter || character.isNumber
      || "-_./:=@%+,".contains(character)
  }
}
