import BreakerCore
import BreakerStore

/// The times that the headers of an answer name.
struct HTTPTimes {
  /// The values by name in lower case.
  private let values: [String: String]
  private let now: BreakerTimestamp

  /// Takes the headers; several with one name are one, as RFC 9110 has it.
  init(_ headers: some Sequence<(key: String, value: String)>, now: BreakerTimestamp) {
    let values = Dictionary(
      headers.lazy.map { ($0.key.lowercased(), $0.value) }, uniquingKeysWith: { "\($0), \($1)" })
    self.values = values
    let words = values["date"]?.split(whereSeparator: { $0 == " " || $0 == "\t" })
    self.now = words.flatMap { HTTPDate($0, now: now)?.time } ?? now
  }

  /// The first time that is named in any way.
  var wait: Duration? { asked ?? reset }

  /// The time until which the server itself asks to be left alone.
  var asked: Duration? {
    if let text = values["retry-after-ms"], let wait = milliseconds(text) { return wait }
    return RetryAfter.wait(values["retry-after"], now: now)
      ?? RetryAfter.wait(values["x-rate-limit-retry-after-seconds"], now: now)
  }

  private func milliseconds(_ text: String) -> Duration? {
    let longest = RetryAfter.longest
    guard let number = HeaderNumber(trimmed(text)),
      number.whole <= longest.inNanoseconds / 1_000_000
    else { return nil }
    let wait = Duration.nanoseconds(number.whole * 1_000_000 + number.billionths / 1_000)
    return wait <= longest ? wait : nil
  }

  /// The longest time after which something is left again of which nothing is left.
  private var reset: Duration? {
    var waits = fieldsOfRateLimit
    for (name, value) in values {
      guard let prefix = Self.prefixes.first(where: { name.hasPrefix($0) }) else { continue }
      var parts = name.dropFirst(prefix.count).split(
        separator: "-", omittingEmptySubsequences: false)
      guard let index = parts.firstIndex(of: "reset") else { continue }
      parts[index] = "remaining"
      if isNothing(values[prefix + parts.joined(separator: "-")]),
        let wait = RetryAfter.wait(value, now: now)
      {
        waits.append(wait)
      }
    }
    return waits.max()
  }

  private static let prefixes = [
    "x-ratelimit-", "x-rate-limit-", "anthropic-ratelimit-", "ratelimit-",
  ]

  /// The times `t` of a header such as `RateLimit: "default";r=0;t=30, "day";r=50;t=3600`, where `r` is 0.
  private var fieldsOfRateLimit: [Duration] {
    guard let text = values["ratelimit"] else { return [] }
    var isQuoted = false
    // A name between quotes may hold any sign.
    let fields = text.filter { sign in
      if sign == "\"" { isQuoted.toggle() }
      return !isQuoted && sign != "\""
    }
    return fields.split(separator: ",").compactMap { field in
      let parameters = field.split(separator: ";").map { trimmed(String($0)) }
      func value(_ name: String) -> String? {
        parameters.first { $0.hasPrefix(name + "=") }.map { String($0.dropFirst(name.count + 1)) }
      }
      return isNothing(value("r")) ? RetryAfter.wait(value("t"), now: now) : nil
    }
  }

  private func isNothing(_ text: String?) -> Bool {
    guard let text, let number = HeaderNumber(trimmed(text)) else { return false }
    return number.whole == 0 && number.billionths == 0
  }

  private func trimmed(_ text: String) -> Substring {
    func isBlank(_ sign: Character) -> Bool { sign == " " || sign == "\t" }
    let rest = text.drop(while: isBlank)
    return rest.prefix(
      upTo: rest.lastIndex(where: { !isBlank($0) }).map { rest.index(after: $0) } ?? rest.startIndex
    )
  }
}
