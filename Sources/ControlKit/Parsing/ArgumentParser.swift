/// Reads a command line by the table of commands; it knows no command itself.
struct ArgumentParser {
  private var words: ArraySlice<[UInt8]>
  private var spec: CommandSpec?
  private var globals: [String: [ParsedValue]] = [:]
  private var values: [String: [ParsedValue]] = [:]
  private var places: [String] = []

  /// What the command line asks for.
  enum Request {
    case help(CommandSpec?)
    case version
    case command(ParsedCommand)
  }

  static func parse(_ words: [[UInt8]]) throws(ControlError) -> Request {
    var parser = ArgumentParser(words: words[...])
    return try parser.parse()
  }

  private mutating func parse() throws(ControlError) -> Request {
    if let request = early() { return request }
    while let bytes = words.first, !isEnd(bytes) {
      words = words.dropFirst()
      let word = try text(bytes)
      if word.hasPrefix("-"), word != "-" {
        try readOption(word)
      } else if spec == nil {
        spec = try Self.command(word)
      } else {
        places.append(word)
      }
    }
    guard let spec else {
      throw .usage("no command", "nothing was asked for", help: nil)
    }
    var parsed = ParsedCommand(spec: spec, global: GlobalOptions(globals))
    try readRest(into: &parsed)
    try fill(&parsed)
    return .command(parsed)
  }

  /// Help and version win over whatever else is right or wrong with the line.
  private func early() -> Request? {
    let own = words.prefix { !isEnd($0) }.map { String(decoding: $0, as: UTF8.self) }
    if own.contains("--help") || own.contains("-h") {
      return .help(own.lazy.compactMap { CommandSpec.named($0) }.first)
    }
    return own.contains("--version") ? .version : nil
  }

  private func isEnd(_ bytes: [UInt8]) -> Bool { bytes == Array("--".utf8) }

  private func text(_ bytes: [UInt8]) throws(ControlError) -> String {
    if let text = String(validating: bytes, as: UTF8.self) { return text }
    let quoted = VisibleText.quoted(String(decoding: bytes, as: UTF8.self))
    throw .usage("wrong argument \(quoted)", "it is not valid UTF-8", help: spec?.name)
  }

  static func command(_ word: String) throws(ControlError) -> CommandSpec {
    if let spec = CommandSpec.named(word) { return spec }
    let names = CommandSpec.all.map(\.name)
    let remedy = Suggestion.nearest(to: word, among: names).map { "did you mean '\($0)'?" }
    throw ControlError(
      .usage, "unknown command \(VisibleText.quoted(word))", "cbctl has none of that name",
      remedy ?? "run 'cbctl --help'")
  }

  private mutating func readOption(_ word: String) throws(ControlError) {
    let separator = word.firstIndex(of: "=")
    let own = spec?.allOptions ?? []
    let option = (GlobalOptions.specs + own).first { option in
      if let letter = option.letter, word == "-\(letter)" { return true }
      return word.prefix(upTo: separator ?? word.endIndex) == "--\(option.name)"
    }
    guard let option else { throw unknown(word.prefix(upTo: separator ?? word.endIndex)) }
    let attached = separator.map { String(word[word.index(after: $0)...]) }
    let value = try value(of: option, attached: attached)
    if GlobalOptions.specs.contains(option) {
      globals[option.name, default: []].append(value)
    } else {
      values[option.name, default: []].append(value)
    }
  }

  private mutating func value(
    of option: OptionSpec, attached: String?
  ) throws(ControlError) -> ParsedValue {
    guard let kind = option.kind else {
      guard attached != nil else { return .flag }
      throw .usage("--\(option.name) was given a value", "it takes none", help: spec?.name)
    }
    if let attached { return try read(attached, kind, "--\(option.name)") }
    guard let next = words.first, !next.starts(with: "--".utf8) else {
      throw ControlError(
        .usage, "no value for --\(option.name)", "it stands last or before another option",
        "\(kind.form), or write --\(option.name)=VALUE")
    }
    words = words.dropFirst()
    return try read(text(next), kind, "--\(option.name)")
  }

  private func read(
    _ text: String, _ kind: ValueKind, _ label: String
  ) throws(ControlError) -> ParsedValue {
    do { return try kind.parse(text) } catch {
      let quoted = VisibleText.quoted(text)
      guard let why = error.why else {
        throw ControlError(.usage, "\(quoted) is no \(label)", error.remedy)
      }
      throw ControlError(.usage, "wrong \(label) \(quoted)", VisibleText.bare(why), error.remedy)
    }
  }

  private func unknown(_ word: Substring) -> ControlError {
    let own = (GlobalOptions.specs + (spec?.allOptions ?? [])).map { "--\($0.name)" }
    let what = "unknown option \(VisibleText.quoted(String(word)))"
    let why = spec.map { "\($0.name) has none of that name" } ?? "cbctl has none of that name"
    if let meant = Suggestion.nearest(to: String(word), among: own) {
      return ControlError(.usage, what, why, "did you mean '\(meant)'?")
    }
    let ofCommands = CommandSpec.all.flatMap(\.allOptions).map { "--\($0.name)" }
    if spec == nil, ofCommands.contains(String(word)) {
      return ControlError(.usage, what, "it belongs to a command", "put it after the command")
    }
    return .usage(what, why, help: spec?.name)
  }

  private mutating func readRest(into parsed: inout ParsedCommand) throws(ControlError) {
    let rest = words.dropFirst()
    if parsed.spec.takesCommandLine {
      parsed.commandLine = Array(rest)
      return
    }
    for bytes in rest { places.append(try text(bytes)) }
  }

  private func fill(_ parsed: inout ParsedCommand) throws(ControlError) {
    var places = places[...]
    for argument in parsed.spec.arguments where argument.kind != .commandLine {
      let isLong = argument.count == .any || argument.count == .several
      let taken = isLong ? places : places.prefix(1)
      places = places.dropFirst(taken.count)
      if taken.isEmpty, argument.count == .one || argument.count == .several {
        throw .usage("no \(argument.label)", argument.summary, help: parsed.spec.name)
      }
      if taken.isEmpty { continue }
      var read: [ParsedValue] = []
      for text in taken { read.append(try self.read(text, argument.kind, argument.label)) }
      parsed.values[argument.label] = read
    }
    parsed.values.merge(values) { $1 }
    if let extra = places.first {
      for text in self.places {
        let options = parsed.spec.options.filter { $0.isRepeatable && Self.takes($0, text) }
        guard let option = options.first else { continue }
        throw ControlError(
          .usage, "unexpected argument \(VisibleText.quoted(text))",
          "--\(option.name) takes one value", "write --\(option.name) before each")
      }
      let why = parsed.spec.takesCommandLine ? "the command comes after --" : "one too many"
      throw .usage(
        "unexpected argument \(VisibleText.quoted(extra))", why, help: parsed.spec.name)
    }
    if parsed.spec.takesCommandLine, parsed.commandLine.isEmpty {
      throw .usage("no command to run", "it comes after --", help: parsed.spec.name)
    }
  }

  /// Whether a text is a value of an option.
  private static func takes(_ option: OptionSpec, _ text: String) -> Bool {
    do {
      _ = try option.kind?.parse(text)
      return option.kind != nil
    } catch {
      return false
    }
  }
}
