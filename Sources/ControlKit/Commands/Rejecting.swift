import SharedBreaker

extension CommandContext {
  /// Says that a call was rejected, and when to come back; any other error is the command's.
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
  /// The document of a call that was not let through.
  var json: JSONValue {
    .object([
      .init("permitted", .bool(false)),
      .init("state", .string(state.wireName)),
      .init("retry_after_ms", JSONValue(milliseconds: retryAfter)),
    ])
  }

  /// Why and until when, with a wait as people say it.
  var spoken: String {
    var rounded = self
    rounded.retryAfter = retryAfter.map(SpokenDuration.rounded)
    return rounded.description
  }
}
