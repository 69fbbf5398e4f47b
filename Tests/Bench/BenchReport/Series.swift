/// What a row of the table measures.
package struct Subject {
  package var topic: String
  package var name: String
  package var unit: String
  package var comparison: Comparison?
  package var goal: Goal?

  /// How one value of the row is measured.
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
    /// This value minus the other.
    case difference

    /// This value divided by the other.
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

/// The goal for the median of a row.
package struct Goal {
  package enum Side: String {
    case atMost = "<="
    case atLeast = ">="
  }

  package var side: Side
  package var limit: Double

  /// Whether the goal is for the comparison, and not for the value itself.
  package var isOfComparison: Bool

  package static func atMost(_ limit: Double) -> Goal {
    Self(side: .atMost, limit: limit, isOfComparison: false)
  }

  package static func atLeast(_ limit: Double) -> Goal {
    Self(side: .atLeast, limit: limit, isOfComparison: false)
  }

  /// The same goal, for the comparison.
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

  /// The error that ended the measurements; nil if there was none.
  package var trouble: String?

  package init(_ subject: Subject) { self.subject = subject }

  package mutating func add(_ value: Double, floor: Double?) {
    values.append(value)
    if let comparison = subject.comparison, let floor {
      compared.append(comparison.of(value, floor))
    }
  }

  /// Whether the goal is reached; nil if there is no goal or no value.
  package var isGoalReached: Bool? {
    guard let goal = subject.goal,
      let spread = Spread(goal.isOfComparison ? compared : values)
    else { return nil }
    return goal.isReached(by: spread.median)
  }
}
