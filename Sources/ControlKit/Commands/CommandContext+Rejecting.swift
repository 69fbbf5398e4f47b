import BreakerDocuments
import SharedBreaker

extension CommandContext {
  /// Reports that a call was rejected, and when to retry; any other error is the command's.
  func reject(_ error: BreakerError) throws(ControlError) -> Ending {
    guard case .rejected(let name, let rejection) = error else { throw ControlError(error) }
    if global.isJSON {
      print(rejection.json)
    } else {
      note("\(VisibleText.name(name)): rejected: \(rejection.spoken)")
    }
    return .exit(.rejected)
  }
}

extension Rejection {
  /// The JSON document of a rejected call.
  var json: JSONValue {
    .object([
      .init("permitted", .bool(false)),
      .init("state", .string(state.wireName)),
      .init("retry_after_ms", JSONValue(milliseconds: retryAfter)),
    ])
  }

  /// Why the call was rejected and for how long, in words for people.
  var spoken: String {
    var rounded = self
    rounded.retryAfter = retryAfter.map(SpokenDuration.rounded)
    return rounded.description
  }
}
