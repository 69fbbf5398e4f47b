// An application needs only `import SharedBreaker`.
@_exported public import BreakerCore
@_exported public import BreakerStore
