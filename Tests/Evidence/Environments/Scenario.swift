/// Actions of several processes with one store, and the results that must follow.
struct Scenario: Sendable {
  var name: String
  var summary: String

  /// Whether its processes become other users, which only root may let them do.
  var needsRoot = false
  var play: @Sendable (Scene) throws -> Void

  static let all =
    ofCounts + ofTrips + ofProbes + ofLateWords + ofHooks + ofReplacedFiles + ofFileUse
    + ofUsers + ofLimits
}
