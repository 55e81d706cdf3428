// Package zxcvbn takes the place of the real one, which loads dictionaries when the program starts.
package zxcvbn

// Strength is what the CLI reads of a value's strength.
type Strength struct{ Entropy float64 }

// PasswordStrength is that of a value that is not a secret.
func PasswordStrength(string, []string) Strength { return Strength{} }
