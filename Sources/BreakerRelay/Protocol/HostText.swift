internal import JSONText
internal import ProgramKit
package import SharedBreaker

/// A breaker of a host as the fleet sees it: the JSON text that the host keeps on the server.
///
/// Times are milliseconds of the server's clock.
package struct FleetBreaker: Sendable, Hashable {
  package var name: String
  package var state: BreakerState
  package var mode: BreakerMode
  package var generation: Int64
  package var trips: Int64
  package var openUntil: Int64?
  package var modeUntil: Int64?

  /// Describes a breaker; nil if the fleet need not know of it.
  package init?(_ snapshot: BreakerSnapshot, at now: Int64) {
    guard
      snapshot.policy.concernsFleet || snapshot.state != .closed || snapshot.mode != .automatic
    else { return nil }
    name = snapshot.name
    state = snapshot.state
    mode = snapshot.mode
    generation = snapshot.generation
    trips = snapshot.trips
    openUntil = snapshot.openEndsIn.map { now + DurationText.milliseconds($0) }
    modeUntil = snapshot.modeEndsIn.map { now + DurationText.milliseconds($0) }
  }

  /// The text that the host keeps on the server, without the name.
  package var text: String {
    JSONValue.object([
      .init("state", .string(state.wireName)), .init("mode", .string(mode.wireName)),
      .init("generation", .integer(generation)), .init("trips", .integer(trips)),
      .init("open_until_ms", JSONValue(openUntil)), .init("mode_until_ms", JSONValue(modeUntil)),
    ]).text
  }

  /// Reads such a text; nil if it is none.
  package init?(_ text: String, named name: String) {
    guard text.utf8.count <= 1_024, (try? Breaker.validate(name: name)) != nil,
      let members = try? JSONObjectReader.members(of: text, standingFor: "a breaker")
    else { return nil }
    var words: [String: String] = [:]
    var numbers: [String: Int64] = [:]
    for member in members {
      switch member.value {
      case .string(let word): words[member.key] = word
      case .number(let digits): numbers[member.key] = ServerClock.time(digits)
      default: break
      }
    }
    guard let state = words["state"].flatMap({ BreakerState(wireName: $0) }),
      let mode = words["mode"].flatMap({ BreakerMode(wireName: $0) })
    else { return nil }
    self.name = name
    self.state = state
    self.mode = mode
    generation = numbers["generation"] ?? 0
    trips = numbers["trips"] ?? 0
    openUntil = numbers["open_until_ms"]
    modeUntil = numbers["mode_until_ms"]
  }

  /// The breaker in the relay's status.
  func standing(at now: Int64) -> RelayStatus.Standing {
    let isModeOver = modeUntil.map { $0 <= now } ?? false
    let ends = state == .open ? openUntil.map { max(0, $0 - now) } : nil
    return RelayStatus.Standing(
      name: name, state: state.wireName, mode: (isModeOver ? .automatic : mode).wireName,
      openEndsIn: ends.map { .milliseconds($0) }, trips: trips)
  }
}

/// What a host says about itself on the server.
package enum HostText {
  /// The text; `run` tells this relay from another one of the same host.
  package static func text(lineage: String, run: String, since: BreakerTimestamp) -> String {
    JSONValue.object([
      .init("version", .integer(1)), .init("run", .string(run)),
      .init("lineage", .string(lineage)), .init("relay", .string(SharedStore.version)),
      .init("since", .string(since.description)),
    ]).text
  }

  /// The lineage in such a text; nil if there is none.
  package static func lineage(in text: String) -> String? {
    guard text.utf8.count <= 1_024,
      let members = try? JSONObjectReader.members(of: text, standingFor: "a host"),
      case .string(let lineage)? = members.first(where: { $0.key == "lineage" })?.value
    else { return nil }
    return lineage
  }
}
