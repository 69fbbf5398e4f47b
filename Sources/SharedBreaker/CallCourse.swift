internal import BreakerCore
internal import BreakerStore

/// The course of one call: its attempts, what each of them meant, and when it is over.
struct CallCourse<Value> {
  typealias Ending = Result<Value, any Error>

  let breaker: Breaker
  let retry: RetryPolicy
  let classifier: Classifier<Value>
  private var failures = 0

  /// The last attempt, if it was a failure and another one was to follow.
  private var unsettled: Ending?

  init(_ breaker: Breaker, _ retry: RetryPolicy, _ classifier: Classifier<Value>) {
    self.breaker = breaker
    self.retry = retry
    self.classifier = classifier
  }

  enum Beginning {
    case permitted(Breaker.Call)

    /// No attempt was made at all.
    case rejected(BreakerError)

    /// There is no further attempt; this is what the last one came to.
    case over(Ending)
  }

  /// Asks for the permit of the next attempt.
  func begin() throws(BreakerError) -> Beginning {
    do throws(BreakerError) {
      return .permitted(try breaker.begin())
    } catch {
      if let unsettled { return .over(unsettled) }
      guard case .rejected = error else { throw error }
      return .rejected(error)
    }
  }

  enum Next {
    case done(Value)

    /// The call has failed, so that it is the turn of a fallback.
    case failed(any Error)

    /// The call says nothing about the resource, so its error is for the caller.
    case ignored(any Error)

    case retry(after: Duration)
  }

  /// Tells the breaker how an attempt ended, and says what comes next.
  mutating func end(_ call: Breaker.Call, _ ending: Ending) -> Next {
    let outcome = outcome(of: ending)
    breaker.end(call, outcome)
    if outcome.isFailure || ending.error != nil, let delay = wait(after: ending, outcome) {
      unsettled = ending
      return .retry(after: delay)
    }
    return Self.settled(ending, isFailure: outcome.isFailure)
  }

  static func settled(_ ending: Ending, isFailure: Bool = true) -> Next {
    switch ending {
    case .success(let value): .done(value)
    case .failure(let error): isFailure ? .failed(error) : .ignored(error)
    }
  }

  private mutating func wait(after ending: Ending, _ outcome: Outcome) -> Duration? {
    failures += 1
    guard !Task.isCancelled,
      let delay = retry.wait(after: failures, error: ending.error, outcome: outcome)
    else { return nil }
    return breaker.snapshot().permits ? delay : nil
  }

  private func outcome(of ending: Ending) -> Outcome {
    switch ending {
    case .success(let value):
      return classifier.values(value)
    case .failure(let error as CallTimedOut) where error.name == breaker.name:
      return .failure(error: error.description)
    case .failure(let error):
      // Whatever a cancelled caller's work makes of it: it says nothing about the resource.
      return Task.isCancelled ? .ignored : classifier.errors(error)
    }
  }
}

extension Result {
  var error: Failure? {
    switch self {
    case .success: nil
    case .failure(let error): error
    }
  }
}
