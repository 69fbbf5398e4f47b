import SharedBreaker

/// Completes the last word of a command line, by the table of commands.
struct Completer {
  struct Candidate: Sendable, Hashable {
    var text: String
    var summary = ""
  }

  enum Answer: Sendable, Hashable {
    /// Whole words.
    case words([Candidate])

    /// Beginnings of words, after which no space follows.
    case beginnings([Candidate])
    case files

    /// Another program's command line, which begins at the word with this index.
    case commandLine(from: Int)
  }

  /// Returns the names of breakers, in the store that the line names, if any.
  var names: (_ store: String?) -> [String]

  private var spec: CommandSpec?
  private var used: Set<String> = []
  private var places: [String] = []
  private var store: String?

  init(names: @escaping (_ store: String?) -> [String]) { self.names = names }

  /// Returns the completions of the last word; the words before it are as they were typed.
  static func answer(
    to words: [String], names: @escaping (_ store: String?) -> [String]
  ) -> Answer {
    var completer = Completer(names: names)
    return completer.answer(to: words)
  }

  private mutating func answer(to words: [String]) -> Answer {
    let current = words.last ?? ""
    var earlier = words.dropLast()
    while let word = earlier.popFirst() {
      if word == "--" {
        guard spec?.takesCommandLine == true else {
          places += earlier
          return place(current)
        }
        return .commandLine(from: earlier.startIndex)
      }
      guard word.hasPrefix("-"), word != "-" else {
        guard spec == nil else {
          places.append(word)
          continue
        }
        spec = CommandSpec.all.first { $0.name == word }
        if spec == nil { return .words([]) }
        continue
      }
      let parts = word.utf8.split(
        separator: UInt8(ascii: "="), maxSplits: 1, omittingEmptySubsequences: false
      ).map { Substring($0) }
      guard let option = option(parts[0]) else { continue }
      used.insert(option.name)
      guard let kind = option.kind else { continue }
      guard parts.count > 1 || !earlier.isEmpty else { return values(kind, current) }
      let value = parts.count > 1 ? String(parts[1]) : earlier.removeFirst()
      if option.name == "store" { store = value }
    }
    return lastWord(current)
  }

  private var options: [OptionSpec] { (spec?.allOptions ?? []) + GlobalOptions.specs }

  private func option(_ word: Substring) -> OptionSpec? {
    options.first { word == "--\($0.name)" || $0.letter.map { word == "-\($0)" } == true }
  }

  /// Completes the last word, which is not the value of an option before it.
  private func lastWord(_ current: String) -> Answer {
    if current.hasPrefix("-") {
      if let equals = current.utf8.firstIndex(of: UInt8(ascii: "=")) {
        guard let kind = option(current[..<equals])?.kind else { return .words([]) }
        let value = current.utf8.index(after: equals)
        return prefixed(String(current[..<value]), values(kind, String(current[value...])))
      }
      return fitting(current, optionCandidates)
    }
    if spec == nil {
      let commands = CommandSpec.all.map { Candidate(text: $0.name, summary: $0.summary) }
      return fitting(current, commands)
    }
    let answer = place(current)
    return answer == .words([]) && current.isEmpty ? .words(optionCandidates) : answer
  }

  private var optionCandidates: [Candidate] {
    options.filter { $0.isRepeatable || !used.contains($0.name) }
      .map { Candidate(text: "--\($0.name)", summary: $0.summary) }
  }

  /// Completes a positional argument.
  private func place(_ current: String) -> Answer {
    let arguments = spec?.arguments.filter { $0.kind != .commandLine } ?? []
    let isLong = arguments.last.map { $0.count == .any || $0.count == .several } ?? false
    let index = isLong ? min(places.count, arguments.count - 1) : places.count
    guard index < arguments.count else { return .words([]) }
    let answer = values(arguments[index].kind, current)
    guard isLong, case .words(let candidates) = answer else { return answer }
    return .words(candidates.filter { !places.contains($0.text) })
  }

  private func values(_ kind: ValueKind, _ current: String) -> Answer {
    switch kind {
    case .name, .pattern:
      // Names that look like an option or like another name are not offered.
      let names = names(store).filter { !$0.hasPrefix("-") && $0 == OutsideText.visible($0) }
      return fitting(current, names.map { Candidate(text: $0) })
    case .choice(let words): return fitting(current, words.map { Candidate(text: $0) })
    case .topic: return fitting(current, HelpTopic.candidates)
    case .policyKey: return fitting(current, Self.keys(endingIn: ""))
    case .policySetting:
      return .beginnings(Self.keys(endingIn: "=").filter { $0.text.hasPrefix(current) })
    case .path: return .files
    case .commandLine, .shellLine, .text, .remark, .token, .duration, .count, .countFromZero, .rate,
      .factor, .pid, .time, .past, .exitCodes, .heldCodes, .fileMode, .permissions, .group, .policy:
      return .words([])
    }
  }

  private static func keys(endingIn end: String) -> [Candidate] {
    PolicyKey.allCases.map { Candidate(text: $0.rawValue + end, summary: $0.summary) }
  }

  private func fitting(_ current: String, _ candidates: [Candidate]) -> Answer {
    .words(candidates.filter { $0.text.utf8.starts(with: current.utf8) })
  }

  private func prefixed(_ prefix: String, _ answer: Answer) -> Answer {
    func whole(_ candidates: [Candidate]) -> [Candidate] {
      candidates.map { Candidate(text: prefix + $0.text, summary: $0.summary) }
    }
    return switch answer {
    case .words(let candidates): .words(whole(candidates))
    case .beginnings(let candidates): .beginnings(whole(candidates))
    case .files, .commandLine: answer
    }
  }
}

extension HelpTopic {
  /// Everything that help explains.
  fileprivate static var candidates: [Completer.Candidate] {
    CommandSpec.all.map { .init(text: $0.name, summary: $0.summary) }
      + all.map { .init(text: $0.name, summary: $0.summary) }
  }
}

/// An unfinished shell line, split into words as the shell would split it.
///
/// It works on scalars, because a combining mark in a name and a character before it that the shell
/// acts on are one Swift character.
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

  /// Escapes the part of a text that the shell needs, after what it keeps of the last word.
  func escaped(_ text: String) -> String {
    var result = ""
    for scalar in text.unicodeScalars.dropFirst(kept) { result += escaped(scalar) }
    return result
  }

  private func escaped(_ scalar: Unicode.Scalar) -> String {
    switch (openQuote, scalar) {
    case (.single, "'"): "'\\''"
    // Inside double quotes a backslash before it would remain, so the quotes are interrupted.
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
