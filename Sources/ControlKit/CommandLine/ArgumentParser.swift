import SharedBreaker

/// Parses a command line by the table of commands; it knows no command itself.
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
      if bytes.first == UInt8(ascii: "-"), bytes.count > 1 {
        try readOption(bytes)
      } else if spec == nil {
        spec = try Self.command(try text(bytes))
      } else {
        places.append(try text(bytes))
      }
    }
    guard let spec else {
      throw .usage("missing command", "cbctl needs one", help: nil)
    }
    var parsed = ParsedCommand(spec: spec, global: GlobalOptions(globals))
    try readRest(into: &parsed)
    try fill(&parsed)
    return .command(parsed)
  }

  /// Returns a request for help or the version, which wins over errors in the rest of the line.
  private func early() -> Request? {
    var own: [String] = []
    var isRemark = false
    for bytes in words.prefix(while: { !isEnd($0) }) {
      let word = String(decoding: bytes, as: UTF8.self)
      // The text of a remark, such as an error, can look like an option.
      if !isRemark || word == "--help" { own.append(word) }
      isRemark = !isRemark && Self.takesRemark(word)
    }
    if own.contains("--help") || own.contains("-h") {
      return .help(own.lazy.compactMap { CommandSpec.named($0) }.first)
    }
    return own.contains("--version") ? .version : nil
  }

  private static func takesRemark(_ word: String) -> Bool {
    CommandSpec.all.contains { spec in
      spec.options.contains { $0.kind == .remark && word == "--\($0.name)" }
    }
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
      .usage, "unknown command \(VisibleText.quoted(word))", remedy ?? "run 'cbctl --help'")
  }

  private mutating func readOption(_ bytes: [UInt8]) throws(ControlError) {
    // By bytes, because a combining mark after the sign would join it to one character.
    let separator = bytes.firstIndex(of: UInt8(ascii: "="))
    guard let option = option(bytes) else {
      throw unknown(try text(Array(bytes[..<(separator ?? bytes.endIndex)])))
    }
    let attached = separator.map { Array(bytes[($0 + 1)...]) }
    let value = try value(of: option, attached: attached)
    if GlobalOptions.specs.contains(option) {
      globals[option.name, default: []].append(value)
    } else {
      values[option.name, default: []].append(value)
    }
  }

  /// The option in a word, which may have its value attached.
  private func option(_ bytes: [UInt8]) -> OptionSpec? {
    let name = bytes.prefix { $0 != UInt8(ascii: "=") }
    return (GlobalOptions.specs + (spec?.allOptions ?? [])).first { option in
      if let letter = option.letter, bytes.elementsEqual("-\(letter)".utf8) { return true }
      return name.elementsEqual("--\(option.name)".utf8)
    }
  }

  private mutating func value(
    of option: OptionSpec, attached: [UInt8]?
  ) throws(ControlError) -> ParsedValue {
    guard let kind = option.kind else {
      guard attached != nil else { return .flag }
      throw .usage("--\(option.name) was given a value", "it takes none", help: spec?.name)
    }
    if let attached { return try read(text(attached, of: kind), kind, "--\(option.name)") }
    guard let next = words.first, mayBeValue(next, of: kind) else {
      throw ControlError(
        .usage, "missing value for --\(option.name)", "it is the last word or before an option",
        "\(kind.form), or write --\(option.name)=VALUE")
    }
    words = words.dropFirst()
    return try read(text(next, of: kind), kind, "--\(option.name)")
  }

  private func mayBeValue(_ next: [UInt8], of kind: ValueKind) -> Bool {
    guard next.starts(with: "--".utf8) else { return true }
    return kind == .remark && !isEnd(next) && option(next) == nil
  }

  /// The text of a word; a remark is repaired, so that one wrong byte does not lose it.
  private func text(_ bytes: [UInt8], of kind: ValueKind) throws(ControlError) -> String {
    kind == .remark ? String(decoding: bytes, as: UTF8.self) : try text(bytes)
  }

  private func read(
    _ text: String, _ kind: ValueKind, _ label: String
  ) throws(ControlError) -> ParsedValue {
    do { return try kind.parse(text) } catch {
      let quoted = VisibleText.quoted(text)
      guard let why = error.why else {
        throw ControlError(.usage, "wrong \(label) \(quoted)", error.remedy)
      }
      throw ControlError(.usage, "wrong \(label) \(quoted)", VisibleText.bare(why), error.remedy)
    }
  }

  private func unknown(_ word: String) -> ControlError {
    let own = (GlobalOptions.specs + (spec?.allOptions ?? [])).map { "--\($0.name)" }
    let what = "unknown option \(VisibleText.quoted(word))"
    let why = "\(spec?.name ?? "cbctl") has no such option"
    if let meant = Suggestion.nearest(to: word, among: own) {
      return ControlError(.usage, what, why, "did you mean '\(meant)'?")
    }
    let ofCommands = CommandSpec.all.flatMap(\.allOptions).map { "--\($0.name)" }
    if spec == nil, ofCommands.contains(word) {
      return ControlError(.usage, what, "it is an option of a command", "put it after the command")
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
        throw .usage("missing \(argument.label)", argument.summary, help: parsed.spec.name)
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
      let why = parsed.spec.takesCommandLine ? "the command comes after --" : "it is one too many"
      throw .usage(
        "unexpected argument \(VisibleText.quoted(extra))", why, help: parsed.spec.name)
    }
    if parsed.spec.takesCommandLine, parsed.commandLine.isEmpty {
      throw .usage("missing COMMAND", "it comes after --", help: parsed.spec.name)
    }
  }

  /// Whether a text is a valid value of an option.
  private static func takes(_ option: OptionSpec, _ text: String) -> Bool {
    do {
      _ = try option.kind?.parse(text)
      return option.kind != nil
    } catch {
      return false
    }
  }
}

/// A parsed command line: the command and its values.
struct ParsedCommand: Sendable {
  var spec: CommandSpec
  var global: GlobalOptions

  /// The values of options and arguments, by option name or argument label.
  var values: [String: [ParsedValue]] = [:]

  /// The other program's command line, byte for byte.
  var commandLine: [[UInt8]] = []

  func has(_ name: String) -> Bool { values[name] != nil }

  func text(_ name: String) -> String? { texts(name).last }

  func texts(_ name: String) -> [String] {
    (values[name] ?? []).compactMap { value in
      if case .text(let text) = value { text } else { nil }
    }
  }

  /// The distinct values of a repeatable argument, in the order given.
  func distinctTexts(_ name: String) -> [String] {
    var seen: Set<[UInt8]> = []
    return texts(name).filter { seen.insert(Array($0.utf8)).inserted }
  }

  /// The names and patterns of the breakers that a command prints; empty for all of them.
  var patterns: [NamePattern] { distinctTexts("NAME").map { NamePattern($0) } }

  func duration(_ name: String) -> Duration? {
    if case .duration(let duration)? = values[name]?.last { duration } else { nil }
  }

  func number(_ name: String) -> Int64? {
    if case .number(let number)? = values[name]?.last { number } else { nil }
  }

  func rate(_ name: String) -> BreakerPolicy.Rate? {
    if case .rate(let rate)? = values[name]?.last { rate } else { nil }
  }

  func factor(_ name: String) -> Double? {
    if case .factor(let factor)? = values[name]?.last { factor } else { nil }
  }

  func codes(_ name: String) -> Set<Int32> {
    var codes: Set<Int32> = []
    for case .codes(let more) in values[name] ?? [] { codes.formUnion(more) }
    return codes
  }

  func settings(_ name: String) -> [PolicyKey: String] {
    var settings: [PolicyKey: String] = [:]
    for case .setting(let key, let text) in values[name] ?? [] { settings[key] = text }
    return settings
  }

  func keys(_ name: String) -> Set<PolicyKey> {
    var keys: Set<PolicyKey> = []
    for case .key(let key) in values[name] ?? [] { keys.insert(key) }
    return keys
  }
}
