/// What a row of the table is about.
package struct Subject {
  package var topic: String
  package var name: String
  package var unit: String
  package var comparison: Comparison?
  package var goal: Goal?

  /// How one value of the row comes about.
  package var samples: String

  package init(
    topic: String, name: String, unit: String, comparison: Comparison? = nil, goal: Goal? = nil,
    samples: String
  ) {
    self.topic = topic
    self.name = name
    self.unit = unit
    self.comparison = comparison
    self.goal = goal
    self.samples = samples
  }
}

/// Another row of the same round that a row is measured against.
package struct Comparison {
  package enum Kind: String {
    /// What is left over the other.
    case difference

    /// How many times the other.
    case ratio
  }

  package var name: String
  package var kind: Kind

  package static func over(_ name: String) -> Comparison { Self(name: name, kind: .difference) }

  package static func times(_ name: String) -> Comparison { Self(name: name, kind: .ratio) }

  func of(_ value: Double, _ floor: Double) -> Double {
    switch kind {
    case .difference: value - floor
    case .ratio: value / floor
    }
  }
}

/// What the median of a row is to reach.
package struct Goal {
  package enum Side: String {
    case atMost = "<="
    case atLeast = ">="
  }

  package var side: Side
  package var limit: Double

  /// Whether it is the comparison that has to reach it, not the value itself.
  package var isOfComparison: Bool

  package static func atMost(_ limit: Double) -> Goal {
    Self(side: .atMost, limit: limit, isOfComparison: false)
  }

  package static func atLeast(_ limit: Double) -> Goal {
    Self(side: .atLeast, limit: limit, isOfComparison: false)
  }

  /// The same goal for what is compared.
  package var compared: Goal { Self(side: side, limit: limit, isOfComparison: true) }

  func isReached(by value: Double) -> Bool {
    switch side {
    case .atMost: value <= limit
    case .atLeast: value >= limit
    }
  }
}

/// The values of one row over all rounds.
package struct Series {
  package var subject: Subject
  package private(set) var values: [Double] = []
  package private(set) var compared: [Double] = []

  /// Why there are no more values, if there could be.
  package var trouble: String?

  package init(_ subject: Subject) { self.subject = subject }

  package mutating func add(_ value: Double, floor: Double?) {
    values.append(value)
    if let comparison = subject.comparison, let floor {
      compared.append(comparison.of(value, floor))
    }
  }

  /// Nil if there is no goal, or nothing to hold against it.
  package var isGoalReached: Bool? {
    guard let goal = subject.goal,
      let spread = Spread(goal.isOfComparison ? compared : values)
    else { return nil }
    return goal.isReached(by: spread.median)
  }
}
