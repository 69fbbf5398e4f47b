internal import BreakerCore
internal import JSONText

/// Policies as JSON, in the format of the `policy` object of `cbctl show --json`.
extension BreakerPolicy {
  /// Reads a policy from a JSON object such as `{"max-failures": 3, "open-for": "1m"}`.
  ///
  /// Counts and factors are numbers, times and rates are strings, and `null` removes a value.
  ///
  /// - Parameters:
  ///   - text: The object, and nothing else.
  ///   - base: The policy that supplies all values that the object does not set.
  /// - Throws: `PolicyError` if the text is not a JSON object, if a key is unknown, is given twice
  ///   or has an invalid value, or if the resulting policy is not valid.
  public init(json text: String, over base: BreakerPolicy = BreakerPolicy()) throws(PolicyError) {
    let members: [JSONMember]
    do throws(JSONError) {
      members = try JSONObjectReader.members(of: text, standingFor: "a policy")
    } catch {
      throw PolicyError(about: "", error.description)
    }
    var values: [PolicyKey: String] = [:]
    for member in members {
      guard let key = PolicyKey(rawValue: member.key) else {
        throw PolicyError(unknownKey: member.key)
      }
      guard values[key] == nil else { throw PolicyError(saidTwice: member.key) }
      values[key] = try Self.text(of: member.value, for: key)
    }
    self = try PolicyWords(values).applied(to: base)
  }

  /// The policy as a JSON object on one line, with all its keys.
  public var json: String {
    let members = PolicyKey.allCases.map { key in
      guard let text = text(for: key) else { return "\"\(key.rawValue)\":null" }
      return switch key.value {
      case .count, .factor: "\"\(key.rawValue)\":\(text)"
      case .duration, .rate: "\"\(key.rawValue)\":\"\(text)\""
      case .countOrRate:
        CountText.parse(text) == nil
          ? "\"\(key.rawValue)\":\"\(text)\"" : "\"\(key.rawValue)\":\(text)"
      }
    }
    return "{" + members.joined(separator: ",") + "}"
  }

  private static func text(
    of value: JSONMember.Value, for key: PolicyKey
  ) throws(PolicyError) -> String {
    switch (value, key.value) {
    case (.number(let text), .count), (.number(let text), .factor), (.string(let text), .duration),
      (.string(let text), .rate), (.number(let text), .countOrRate),
      (.string(let text), .countOrRate):
      return text
    case (.null, _):
      return key.isOptional ? "none" : "null"
    case (.string, .count), (.string, .factor), (.bool, .count), (.bool, .factor),
      (.nested, .count), (.nested, .factor):
      throw PolicyError(about: key.rawValue, "\(key.rawValue) takes a number, such as 3")
    case (.number, .duration), (.bool, .duration), (.nested, .duration):
      throw PolicyError(
        about: key.rawValue, "\(key.rawValue) takes a time in quotes, such as \"30s\"")
    case (.number, .rate), (.bool, .rate), (.nested, .rate):
      throw PolicyError(
        about: key.rawValue, "\(key.rawValue) takes a rate in quotes, such as \"50%\"")
    case (.bool, .countOrRate), (.nested, .countOrRate):
      throw PolicyError(
        about: key.rawValue,
        "\(key.rawValue) takes a number, such as 3, or a rate in quotes, such as \"30%\"")
    }
  }
}
