import SharedBreaker

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
    var seen: Set<NameBytes> = []
    return texts(name).filter { seen.insert(NameBytes($0)).inserted }
  }

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
