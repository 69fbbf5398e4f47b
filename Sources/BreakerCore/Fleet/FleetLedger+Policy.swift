/// Following what a fleet says about the policy of a breaker.
extension FleetLedger {
  /// Makes the words of a policy follow what was said about its values, as far as that fits.
  ///
  /// Values may fit only together, as `failures` and `within` do, and those that a later command
  /// has brought may have yet to arrive, or may belong to what this host's code declares. What does
  /// not fit waits for the next command. If values never fit, because two hosts have given commands
  /// at the same time, every host follows the same ones: the later a command, the sooner.
  ///
  /// - Parameters:
  ///   - words: The words of the policy.
  ///   - reason: Why, for the history.
  ///   - now: The time.
  /// - Returns: Whether the words have changed.
  package mutating func lead(
    _ words: inout AgreedWords, because reason: String, at now: Moment
  ) -> Step<Bool> {
    let aspects = registers.keys.filter(\.isPolicy)
    let waiting = aspects.filter { registers[$0]?.isInForce == false }
    if let step = apply(waiting, to: &words, because: reason, at: now) {
      note(true, waiting)
      return step
    }
    let own = aspectsOfThisHost(in: words)
    let fitting = fittingAspects(over: words, without: own, at: now)
    let others = aspects.filter { !fitting.contains($0) && !own.contains($0) }
    guard let step = apply(fitting, without: others, to: &words, because: reason, at: now) else {
      // What this host has of its own does not fit without the fleet's.
      return Step(answer: false, events: [])
    }
    note(true, fitting)
    note(false, others)
    return step
  }

  /// The aspects about which an operator has said something else since, on this host alone.
  private func aspectsOfThisHost(in words: AgreedWords) -> Set<FleetAspect> {
    let values = AgreedPolicy(words).operatorValues
    var own: Set<FleetAspect> = []
    for (aspect, register) in registers where register.isInForce {
      if case .policy(let key) = aspect, case .policy(let set, _) = register.order.action,
        values[key] != set[key]
      {
        own.insert(aspect)
      }
    }
    return own
  }

  /// The policy aspects that each command set, with the latest command first.
  private var commands: [[FleetAspect]] {
    var commands: [(order: FleetOrder, aspects: [FleetAspect])] = []
    for (aspect, register) in registers where aspect.isPolicy {
      let order = register.order
      let index = commands.firstIndex {
        $0.order.stamp == order.stamp && $0.order.host == order.host
      }
      if let index {
        commands[index].aspects.append(aspect)
      } else {
        commands.append((order, [aspect]))
      }
    }
    return commands.sorted { $0.order.isLater(than: $1.order) }.map(\.aspects)
  }

  /// The aspects that fit together: command by command, each if it fits with those before.
  private func fittingAspects(
    over words: AgreedWords, without own: Set<FleetAspect>, at now: Moment
  ) -> [FleetAspect] {
    let commands = commands.map { $0.filter { !own.contains($0) } }
    var fitting: [FleetAspect] = []
    for aspects in commands {
      let candidate = fitting + aspects
      let others = commands.joined().filter { !candidate.contains($0) }
      var trial = words
      if apply(candidate, without: others, to: &trial, because: "", at: now) != nil {
        fitting = candidate
      }
    }
    return fitting
  }

  /// Applies what was said about some aspects, and removes what was said about others.
  ///
  /// - Returns: Whether the words have changed; nil if the policy would not be valid.
  private func apply(
    _ aspects: [FleetAspect], without others: [FleetAspect] = [], to words: inout AgreedWords,
    because reason: String, at now: Moment
  ) -> Step<Bool>? {
    var values: [PolicyKey: String] = [:]
    var keys: Set<PolicyKey> = []
    for case .policy(let key) in others { keys.insert(key) }
    for aspect in aspects {
      if case .policy(let set, let unset) = registers[aspect]?.order.action {
        for (key, value) in set { values[key] = value }
        keys.formUnion(unset)
      }
    }
    let before = words
    do throws(PolicyError) {
      let step = try words.overridden(set: values, unset: keys, because: reason, at: now)
      return Step(answer: words != before, events: step.events)
    } catch {
      return nil
    }
  }
}
