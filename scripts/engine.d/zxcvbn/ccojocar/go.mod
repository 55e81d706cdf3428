module github.com/ccojocar/zxcvbn-go
