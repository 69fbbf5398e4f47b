import BreakerDocuments
import ProgramKit
import SharedBreaker

/// The latest commands to one breaker, and the hosts that have carried them out.
struct NamedConfirmations {
  var name: String
  var confirmations: FleetConfirmations

  /// The commands with their aspects, the latest first.
  var given: [[FleetConfirmations.Command]] {
    var groups: [[FleetConfirmations.Command]] = []
    for command in confirmations.commands {
      let place = groups.firstIndex {
        $0[0].stamp == command.stamp && $0[0].host == command.host
      }
      if let place { groups[place].append(command) } else { groups.append([command]) }
    }
    return groups
  }

  /// A line for each command, and one for each kind of host that has not confirmed it.
  var lines: [String] {
    given.flatMap { parts -> [String] in
      let first = parts[0]
      let aspects = parts.map(\.aspect).joined(separator: ", ")
      let reason = first.reason.map { " (\(VisibleText.bare($0)))" } ?? ""
      let age = SpokenDuration.format(first.age)
      let giver = VisibleText.bare(first.giver.description)
      let lead = "\(VisibleText.name(name)), \(aspects), \(age) ago by \(giver)\(reason): "
      if let winner = first.winner {
        return [lead + "overruled by a later command from \(VisibleText.name(winner))"]
      }
      if let refusal = first.refusal {
        return [lead + "cannot go out (\(VisibleText.bare(refusal)))"]
      }
      guard first.isTold else {
        return [lead + (confirmations.problem == nil ? "not told yet" : "unknown")]
      }
      return [lead + FleetCourse.words(of: first.hosts)]
        + FleetCourse.missing(of: first.hosts).map { "  " + $0 }
    }
  }

  var documents: [JSONValue] {
    confirmations.commands.map { command in
      guard case .object(let members) = command.document else { return command.document }
      return .object([.init("name", .string(name))] + members)
    }
  }
}

extension CommandContext {
  /// Asks the relay of this host who has carried out the latest commands to a breaker.
  ///
  /// An earlier relay knows nothing of that.
  func confirmations(of name: String) throws(ControlError) -> NamedConfirmations {
    let client = RelayClient(store: store.path, patience: console.relayPatience)
    do throws(RelaySilence) {
      return NamedConfirmations(name: name, confirmations: try client.confirmations(of: name))
    } catch {
      note("which hosts have carried out commands is unknown: \(VisibleText.bare(error.why))")
      return NamedConfirmations(name: name, confirmations: FleetConfirmations(commands: []))
    }
  }
}
