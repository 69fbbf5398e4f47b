public import JSONText

/// The answer to the wish to forget a host of a fleet.
///
/// `cbrelay` writes it to its socket, where `cbctl` reads it.
public struct FleetDismissal: Sendable, Hashable {
  /// How long the host had been silent; nil if the fleet knows no such host.
  public var silence: Duration?

  /// Whether it is forgotten; one that was heard from lately is not.
  public var isForgotten: Bool

  /// Why nothing is known; nil if the server has answered.
  public var problem: String?

  /// Describes what has happened.
  public init(silence: Duration? = nil, isForgotten: Bool = false, problem: String? = nil) {
    self.silence = silence
    self.isForgotten = isForgotten
    self.problem = problem
  }

  /// The answer of `cbrelay`.
  public var document: JSONValue {
    .object([
      .init("version", .integer(1)), .init("silent_ms", JSONValue(milliseconds: silence)),
      .init("forgotten", .bool(isForgotten)), .init("problem", JSONValue(problem)),
    ])
  }

  /// Reads a document; members that this version does not know are ignored.
  public init(document: String) throws(JSONError) {
    let fields = try JSONFields(document, standingFor: "a relay")
    guard fields.number("version") == 1 else {
      throw JSONError(description: "it is not of version 1")
    }
    self.init(
      silence: fields.milliseconds("silent_ms"), isForgotten: fields.isTrue("forgotten"),
      problem: fields.text("problem"))
  }
}
